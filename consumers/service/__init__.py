"""The running service: recovery, the loop, the commit, and who is champion."""
