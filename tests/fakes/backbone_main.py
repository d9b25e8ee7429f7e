# SPDX-License-Identifier: Apache-2.0
"""A backbone with a scripted model in a process of its own, so that it can be killed.

``python -m tests.fakes.backbone_main STATE_DIR`` prints its address when it serves.
"""

import sys
import threading

from cloud_backbone.config import BackboneConfig

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.counting_backbone import counting_backbone

if __name__ == '__main__':
    with BackboneServer(counting_backbone(), config=BackboneConfig(state_dir=sys.argv[1])) as one:
        print(one.address, flush=True)
        threading.Event().wait()
