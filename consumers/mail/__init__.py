"""Mail (RFC 5322, MIME) as flat documents of texts and numbers."""
