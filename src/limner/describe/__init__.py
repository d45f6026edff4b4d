"""Captions of pictures, and descriptions of fitting pictures for steps, by models on a server that the user
chooses.
"""
