# SPDX-License-Identifier: Apache-2.0
"""lerobot's own PolicyServer with a policy that answers at once. Takes its ``inference_latency``.

Its default fills each answer up to a thirtieth of a second; 0 leaves that out. Prints its port.
"""

from concurrent import futures
import sys
from types import SimpleNamespace
from typing import Any

import grpc
from lerobot.async_inference.configs import PolicyServerConfig
from lerobot.async_inference.policy_server import PolicyServer
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.transport import services_pb2, services_pb2_grpc
from tendon.bench_transport.peers.lerobot_features import FEATURES, IMAGE_KEY
from tendon.bench_transport.rounds import chunk, HEIGHT, HORIZON, WIDTH
import torch

WORKERS = 4  # as its ``serve`` takes


class InstantServer(PolicyServer):
    """Serves without a checkpoint."""

    def SendPolicyInstructions(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Take a policy without thought, whatever the client names."""
        actions = torch.from_numpy(chunk())[None]
        image = PolicyFeature(type=FeatureType.VISUAL, shape=(3, HEIGHT, WIDTH))
        self.policy = SimpleNamespace(
            config=SimpleNamespace(image_features={IMAGE_KEY: image}),
            predict_action_chunk=lambda observation: actions,
        )
        self.lerobot_features, self.actions_per_chunk = FEATURES, HORIZON
        self.preprocessor = self.postprocessor = lambda value: value
        return services_pb2.Empty()


def _serve(inference_latency_s: float) -> None:
    config = PolicyServerConfig(inference_latency=inference_latency_s)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=WORKERS))
    services_pb2_grpc.add_AsyncInferenceServicer_to_server(InstantServer(config), server)
    port = server.add_insecure_port('127.0.0.1:0')
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == '__main__':
    try:
        _serve(float(sys.argv[1]))
    except KeyboardInterrupt:
        pass
