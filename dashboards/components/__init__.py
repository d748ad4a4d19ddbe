"""Parts of pages that Dash renders: pure functions of what they show."""
