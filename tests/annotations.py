"""How annotations are read while tests run: an int may stand where a float is asked
for, as type checkers have it.
"""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
