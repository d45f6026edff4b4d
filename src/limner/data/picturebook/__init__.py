"""Picture-book worlds: drawn stories whose truth is known.

One module per idea: world (what is true), tales (what happens), wording (what is said), canvas, places,
figures, props (how it looks), files (how it is stored). `limner.data.synthetic` is the way in.
"""
