"""The published systems, their baselines and limner's own, one module each; see `base.system`."""
