"""`python -m tests.deepspeed`; apart from `table`, whose functions ranks import by name."""

import sys

from tests.deepspeed.table import main

sys.exit(main())
