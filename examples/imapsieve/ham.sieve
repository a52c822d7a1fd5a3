# A mail that leaves Junk is ham, unless it goes to where mail is thrown away: who empties Junk
# says nothing about its mails.
require ["vnd.dovecot.pipe", "copy", "environment", "imapsieve", "variables"];

if environment :matches "imap.mailbox" "*" {
  set "to" "${1}";
}
if string :is "${to}" ["Trash", "Deleted Items", "Deleted Messages", "Bin"] {
  stop;
}
pipe :copy "headwater-learn" ["--ham"];
