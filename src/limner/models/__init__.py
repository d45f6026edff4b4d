"""One file per system: texts and pictures into one space, plus what each adds."""
