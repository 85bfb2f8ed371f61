"""What every transport that carries messages must hold to, whatever the network does; see `carriage` for the rules.

`subjects` are those that the suite runs over: all of the registry, and the example of one's own. A new transport needs
nothing here.
"""
