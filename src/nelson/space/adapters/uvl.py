def fill(*a): pass
