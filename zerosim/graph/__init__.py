"""The event graph over all ranks: built, checked, searched for paths."""
