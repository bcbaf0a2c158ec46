# SPDX-License-Identifier: Apache-2.0
"""`python -m incmoe` is the command `incmoe`."""

import sys

from incmoe.cli import main

sys.exit(main())
