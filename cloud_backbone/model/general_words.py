# SPDX-License-Identifier: Apache-2.0
"""Words that people use with robots, so that the tokenizer spells them in few tokens."""

GENERAL_WORDS = tuple(
    """
a an the this that these those it its is are was were be been being am i you he she we they me my
your our their us them
and or not no yes but if then else when while until before after because so as than there here
where which what who how why
in into inside on onto upon over under above below beside between behind near next to from of off
out up down at by with without within toward towards through across around along against left
right front back top bottom side middle centre center corner edge inward outward apart together
away
one two three four five six seven eight nine ten first second third last other another both each
every all any some none more most less least many few same different only just also too very
again still now later soon once
do does did done doing can could will would shall should may might must please kindly thanks
thank let lets want wants need needs like have has had having make makes made ask asks help
put puts placing place places placed set sets lay lays drop drops dropped pick picks picked
picking take takes taken taking grab grabs grasp grasps get gets hold holds holding lift lifts
raise raises carry carries bring brings move moves moved moving transfer transfers relocate shift
slide slides push pushes pushed nudge shove pull pulls drag rotate turn turns open opens close
closes closed release releases throw toss deliver fetch give gives hand hands pass load unload
fill empty stack stacks stacked pile balance rest rests sit sits stand stands lean leave leaves
keep keeps find finds look looks see sees show shows check checks wait stop stops start starts go
goes going come comes reach reaches touch touches approach home return avoid clear clean sort
sorts tidy arrange store insert remove collect gather contain contains containing belong belongs
end ends ended finish finished become becomes transport park tuck settle position support
supports meet meets join joins
red green blue yellow purple orange white black grey gray brown pink cyan violet dark light
bright coloured colored colour color
cube cubes block blocks box boxes brick dice square ball balls sphere spheres round cylinder
cylinders can cans tin tube bin bins container containers tray trays basket bucket crate thing
things object objects item items shaped shape table robot arm gripper hand finger fingers tool
camera image scene
big small large little tall short high low heavy long wide flat full whole new old good bad right
wrong correct ready safe slow fast slowly quickly careful carefully gently firmly exactly
directly straight
lesson lessons goal goals plan plans step steps task tasks turn turns trial trials failed fail
fails failure succeeded success retry try tries tried error because slipped missed moved blocked
dropped empty held visible hidden absent missing present unknown before next time seconds metres
think thought act observe memory rule rules never always instead prefer system user
""".split()
)
