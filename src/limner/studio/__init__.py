"""The studio: a web application for making and editing storyboards, and its REST API."""
