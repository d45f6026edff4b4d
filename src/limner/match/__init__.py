"""Choice of pictures for steps: channels, calibration, agreement and exact assignment."""
