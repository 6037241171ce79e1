"""Make environments of one kind each: what a spec says before its first colon."""
