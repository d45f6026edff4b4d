"""Human studies: created from runs or storyboards, rated in a browser, stored in a database."""
