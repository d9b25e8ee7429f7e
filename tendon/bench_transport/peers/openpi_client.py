# SPDX-License-Identifier: Apache-2.0
"""openpi's own client; the picture travels as it is. Takes the port."""

import sys

from openpi_client.websocket_client_policy import WebsocketClientPolicy
from tendon.bench_transport.rounds import joints, picture, serve_rounds

if __name__ == '__main__':
    policy = WebsocketClientPolicy('127.0.0.1', int(sys.argv[1]))
    seen = {'observation/image': picture(), 'observation/state': joints(), 'prompt': 'put'}
    serve_rounds(lambda: policy.infer(seen)['actions'])
