"""The published systems, their baselines and limner's own: a module of its own each, see `base.system`."""
