"""What Dash asks the server for; few, each for something that a person wants to know."""
