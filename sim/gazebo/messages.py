# SPDX-License-Identifier: Apache-2.0
"""The few protobuf messages of Gazebo Classic and Ignition Transport that are needed here.

Built from field lists, so that no generated code of a foreign project is kept; names and numbers
are those of gazebo_msgs 11 and ign-msgs 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_LABELS = {
    'optional': _Field.LABEL_OPTIONAL, 'required': _Field.LABEL_REQUIRED,
    'repeated': _Field.LABEL_REPEATED,
}

GAZEBO = {
    'Time': 'required int32 sec=1; required int32 nsec=2',
    'Vector3d': 'required double x=1; required double y=2; required double z=3',
    'Quaternion': 'required double x=2; required double y=3; required double z=4; '
                  'required double w=5',
    'Pose': 'optional string name=1; optional uint32 id=2; required Vector3d position=3; '
            'required Quaternion orientation=4',
    'PosesStamped': 'required Time time=1; repeated Pose pose=2',
    'Packet': 'required Time stamp=1; required string type=2; required bytes serialized_data=3',
    'Publish': 'required string topic=1; required string msg_type=2; required string host=3; '
               'required uint32 port=4',
    'Subscribe': 'required string topic=1; required string host=2; required uint32 port=3; '
                 'required string msg_type=4; optional bool latching=5',
    'Image': 'required uint32 width=1; required uint32 height=2; required uint32 pixel_format=3; '
             'required uint32 step=4; required bytes data=5',
    'ImageStamped': 'required Time time=1; required Image image=2',
    'WorldStatistics': 'required Time sim_time=2; required Time pause_time=3; '
                       'required Time real_time=4; required bool paused=5; '
                       'required uint64 iterations=6',
    'WorldControl': 'optional bool pause=1; optional bool step=2; optional uint32 multi_step=3',
    'Physics': 'optional double real_time_update_rate=14',
}

IGNITION = {
    'Double': 'optional double data=2',
    'PID': 'optional Double target_optional=9; optional Double p_gain_optional=10; '
           'optional Double i_gain_optional=11; optional Double d_gain_optional=12; '
           'optional Double limit_optional=15',
    'JointCmd': 'optional string name=2; optional int32 axis=3; optional PID position=5; '
                'optional PID velocity=6; optional bool reset=7',
    'MsgPub': 'optional string ctrl=1; optional string msg_type=2',
    'Pub': 'optional string topic=1; optional string address=2; optional string process_uuid=3; '
           'optional string node_uuid=4; optional int32 scope=5; optional MsgPub msg_pub=6',
    'Discovery': 'optional uint32 version=2; optional string process_uuid=3; '
                 'optional int32 type=4; optional Pub pub=7',
}


def build(package: str, syntax: str, messages: Mapping[str, str]) -> dict[str, Any]:
    """Return message classes by name.

    Args:
        package: of the messages.
        syntax: 'proto2' or 'proto3'.
        messages: name -> 'label type name=number' separated by semicolons; a type with a capital
            letter is a message of the same package.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name=f'{package}.proto', package=package, syntax=syntax)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for part in fields.split(';'):
            label, kind, rest = part.split()
            field_name, number = rest.split('=')
            field = message.field.add(
                name=field_name, number=int(number), label=_LABELS[label])
            if kind[0].isupper():
                field.type, field.type_name = _Field.TYPE_MESSAGE, f'.{package}.{kind}'
            else:
                field.type = getattr(_Field, f'TYPE_{kind.upper()}')
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # type: ignore[no-untyped-call]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f'{package}.{name}'))
        for name in messages
    }


gazebo = build('gazebo.msgs', 'proto2', GAZEBO)
ignition = build('ignition.msgs', 'proto3', IGNITION)
