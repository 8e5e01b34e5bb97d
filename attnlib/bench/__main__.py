"""python -m attnlib.bench"""

from attnlib.bench import main

raise SystemExit(main())
