"""Many settings → one table, remembered on disk, computed on several cores or a cluster."""
