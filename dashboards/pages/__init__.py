"""One page a module: its address, its title, what it consists of."""
