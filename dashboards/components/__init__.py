"""Parts of pages that Dash renders: pure functions of their contents."""
