"""`python -m tests.train.deepspeed`; apart from `table`, whose functions ranks import by name."""

import sys

from tests.train.deepspeed.table import main

sys.exit(main())
