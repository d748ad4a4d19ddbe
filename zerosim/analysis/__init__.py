"""What a trace says about memory, waiting and overlap: pure functions of it."""
