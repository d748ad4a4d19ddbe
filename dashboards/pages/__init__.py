"""One page per module: its address, its title, its contents."""
