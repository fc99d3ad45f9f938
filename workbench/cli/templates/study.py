"""The study `template_name`: does ChaCAL learn short chains better than standard attention in as many steps?"""

from __future__ import annotations

from workbench.studies import Higher, Study
from workbench.studies.figures import by_group
from workbench.studies.measures import Logged

ACCURACY = "accuracy"

STUDIES = {
    "template_name": Study(
        question="Does ChaCAL learn short chains better than standard attention in as many steps?",
        runs={
            "small": {
                "settings": {"steps": 200, "task": {"n": 16, "k": 4}},
                "variants": [
                    {"name": "chacal", "preset": "chain-chacal"},
                    {"name": "standard", "preset": "chain-standard"},
                ],
            }
        },
        measure=Logged((ACCURACY,)),
        contrasts=[Higher(ACCURACY, "chacal", "standard")],
        draw=lambda groups: by_group(groups, ACCURACY, "Short chains: accuracy after 200 steps"),
        seeds={"small": 3},
    )
}
