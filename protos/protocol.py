# SPDX-License-Identifier: Apache-2.0
"""Versions, limits and channel options that robot and backbone must agree on.

Knows nothing about models, robots or ROS.
"""

import re

PROTOCOL_VERSION = 1

# A 128 x 128 JPEG is about 5 KB; a 1920 x 1080 one about 500 KB.
MAX_MESSAGE_BYTES = 1024 * 1024
MAX_INSTRUCTION_CHARS = 500
# Of one trial, in one turn or over many.
MAX_ENTRIES = 256
MAX_LESSONS = 3
MAX_LESSON_CHARS = 200
MAX_NAME_CHARS = 128
MAX_QUESTION_CHARS = 200
ROBOT_ID = re.compile(r'[A-Za-z0-9_.-]{1,128}')
REASON_KEY = 'tendon-reason'
DEFAULT_PORT = 50251

# Keepalive only cleans up dead channels; the deadline of a turn is what the robot acts on.
# min_reconnect_backoff is also the limit of one connection attempt, so it must not be short.
CLIENT_OPTIONS = (
    ('grpc.max_send_message_length', MAX_MESSAGE_BYTES),
    ('grpc.max_receive_message_length', MAX_MESSAGE_BYTES),
    ('grpc.keepalive_time_ms', 200),
    ('grpc.keepalive_timeout_ms', 300),
    ('grpc.keepalive_permit_without_calls', 1),
    ('grpc.http2.max_pings_without_data', 0),
    ('grpc.initial_reconnect_backoff_ms', 50),
    ('grpc.min_reconnect_backoff_ms', 500),
    ('grpc.max_reconnect_backoff_ms', 300),
    ('grpc.enable_http_proxy', 0),
)

# so_reuseport off: a second server on the same port must fail instead of sharing it.
SERVER_OPTIONS = (
    ('grpc.max_send_message_length', MAX_MESSAGE_BYTES),
    ('grpc.max_receive_message_length', MAX_MESSAGE_BYTES),
    ('grpc.max_metadata_size', 8 * 1024),
    ('grpc.http2.min_ping_interval_without_data_ms', 100),
    ('grpc.http2.max_ping_strikes', 0),
    ('grpc.so_reuseport', 0),
)
