"""All other real I/O: files, probes, packages.

In: paths, environments, processes, networks. Out: the frozen values of `terms/`, or one of its errors.
May import: everything below; nothing here runs when it is imported.
"""
