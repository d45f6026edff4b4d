"""What the studio and the study server share: starting, guarding and refusing."""
