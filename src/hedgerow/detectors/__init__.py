"""
Detectors, one file each: a visit and what the state remembers about it go in, evidence comes out.

Detectors never decide what is done about the evidence (`policy`). What all processes must know is in the `state`: a
detector remembers only what each process may count for itself. Each file declares its detector (`spec`), `registry`
finds the files. Operators add detectors of their own as files in the directories that the environment variable
`HEDGEROW_DETECTORS` names. Called by the engine. Tests: `tests/detectors/`, one file per detector.
"""

import os

PLUGIN_VARIABLE = "HEDGEROW_DETECTORS"

__path__ += [path for path in os.environ.get(PLUGIN_VARIABLE, "").split(os.pathsep) if path]
