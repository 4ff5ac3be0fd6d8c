"""The API as data: the four kinds, the vendor's NodePool, names of labels, CRD generation.

Nothing here does I/O or decides anything; every other floor of the house may import it.
"""
