# SPDX-License-Identifier: Apache-2.0
"""A network link between two places on this machine, with delay, loss, rate and outages.

Data path of a packet: ``tun`` of one namespace -> ``forwarding`` (one process) -> ``channel`` ->
``shaper`` (``loss``) -> ``tun`` of the other. ``link`` is what a run uses; ``profile`` and
``config/links.yaml`` say how a link is. The kernel's own emulation is not needed.
"""
