"""Common parts of the studio and the study server: starting, access control, limits and errors."""
