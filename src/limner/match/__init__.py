"""Which picture goes where: channels, calibration, coherence and exact decoding."""
