"""A technical report of a run that went wrong twice: a lost sandbox, a tripped breaker, and how it ended.

Start a server with ``ds serve`` and run this file. A job is to be made to work. Its first sandbox disappears
and is replaced; two failures in a row trip the breaker, and no further step is taken until the judge has
raised it; then the job works, and the judge confirms it in a clean sandbox. The report names every failure
with its events. The seven answers and a zip follow; ``ds dossier verify`` checks it.
"""

import sys

from shared.story import SPEC, ScriptedModel, attach, connected, must_run, options, tell

from durable_sessions import Client
from durable_sessions.client import CommandRun, Work
from durable_sessions.client.errors import ConflictError
from durable_sessions.sandbox import Sandbox

JOB = """\
import sys

rows = [line.split(",") for line in open(sys.argv[1])]
print(sum(int(row[1]) for row in rows))
"""
DATA = {"broken": "a;1\nb;2\n", "half": "a,1\nb,\n", "right": "a,1\nb,2\n"}
ANSWERS = [
    {"text": "I run the job on the data as it is.", "data": "broken"},
    {"text": "The separator was wrong. Again.", "data": "half"},
    {"text": "A value was missing. Again.", "data": "right"},
]
CHECK = f"{sys.executable} job.py data.csv"
LIMIT, RAISED = 2, 5


def prepare(sandbox: Sandbox) -> None:
    """Put the job into a sandbox."""
    sandbox.write("job.py", JOB)


def confirmed(sandbox: Sandbox) -> None:
    """Put the job and the data that it ended with into a sandbox of the judge."""
    prepare(sandbox)
    sandbox.write("data.csv", DATA["right"])


def step(work: Work, model: ScriptedModel) -> CommandRun:
    """Do what the model says next: write the data, and run the job."""
    chosen = model.answer(work)["data"]
    work.sandbox.write("data.csv", DATA[chosen])
    return work.run(CHECK, effect="read_only")


def run(agent: Client, judge: Client, session: str) -> None:
    """Work until it works, and report what happened on the way."""
    model = ScriptedModel(ANSWERS)
    with agent.wake(session, worker="worker-1") as work:
        work.to("local", SPEC, prepare=prepare)
        work.run("rm -rf ../work", effect="non_idempotent")  # as a machine that is switched off
        present = work.run("ls job.py", effect="read_only")
        print(f"The first sandbox was lost; the job goes on in {present.sandbox}")
        for _ in range(LIMIT):
            print(f"The job: exit code {step(work, model).exit_code}")
        try:
            step(work, model)
        except ConflictError as error:
            print(f"The breaker: {error.code}")
            model = ScriptedModel(ANSWERS[LIMIT:])
        raised = {"type": "ds.budget.set", "consecutive_errors": RAISED}
        judge.session(session).append(raised)
        done = step(work, model)
        print(f"The job: exit code {done.exit_code}")
        text = f"The job gave {done.stdout.strip()} after {LIMIT} failures and a lost sandbox.\n"
        attach(agent, work, "report", "report.txt", text.encode())
        work.route("judge", reason="Confirm it.")
    verdict = judge.session(session).validate("job", spec=SPEC, prepare=confirmed, evidence=[done.result])
    print(f"The judge: {verdict.verdict} in {verdict.sandbox}")


def main() -> None:
    """Run it, or, if it was run before, tell it again."""
    given = options(str(__doc__).splitlines()[0], "report")
    with connected(given.url, "agent") as agent, connected(given.url, "judge") as judge:
        feature = {"id": "job", "text": "The job adds the second column.", "check": CHECK}
        made = agent.sessions.create(
            given.session,
            goal="Make the job work on the data.",
            outcome=[feature],
            budget={"consecutive_errors": LIMIT},
        )
        state = made.state()
        if must_run(state, finished=state["done"]):
            run(agent, judge, given.session)
        tell(agent, given.session, "report", given.out)


if __name__ == "__main__":
    main()
