# A mail that comes into Junk is spam.
require ["vnd.dovecot.pipe", "copy", "imapsieve"];

pipe :copy "headwater-learn" ["--spam"];
