"""``python -m celltile``."""

from celltile._cli import main

main()
