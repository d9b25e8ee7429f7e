# SPDX-License-Identifier: Apache-2.0
"""What the robot does when something that it needs is late, old or gone."""
