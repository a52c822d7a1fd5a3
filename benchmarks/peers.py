"""Predictions over HTTP beside other servers, in one run: MLflow's, and river under FastAPI.

    python -m benchmarks.peers [--seconds 3] [--rounds 3] [--write]

Every server has Gaussian naive Bayes, which has learned the same records of 8 numbers and two
classes: headwater and river's one by one, scikit-learn's in MLflow by `fit`, because that server
only predicts. Each peer has a virtual environment of its own in a temporary directory, by pip. A
peer that cannot be installed within ten minutes has no row, and the table says so.

Requests repeat after a while, and so do the ids of observations to learn; the log gets all of them.
One process asks over 4 connections, each with the next request when the last one is answered. All
servers run all the time, and are asked in turn, on the machine that asks too. `--write` puts the
table into docs/performance.md.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from benchmarks.page import say
from benchmarks.performance import percentile, put
from benchmarks.serving import free_port
from consumers.base.records import Outgoing
from consumers.transports import open_log
from tests.acceptance.service import Service

FIELDS, LEARNED, POOL = 8, 10_000, 500
CONNECTIONS = 4
MANY = 100  # records of a large request
AGREED = 0.95  # share of the records for which every server predicts the same class
INSTALL_SECONDS, START_SECONDS = 600, 300
NAMES = [f"x{n}" for n in range(FIELDS)]

Record = dict[str, Any]
Row = tuple[str, str, int, float, float, float]  # server, what, records, a second, p50, p99

RIVER = """
from typing import Any
from fastapi import FastAPI
from river import naive_bayes
app, model = FastAPI(), naive_bayes.GaussianNB()

@app.post("/learn")
async def learn(records: list[dict[str, Any]]) -> int:
    for record in records:
        label = record.pop("label")
        model.learn_one(record, label)
    return len(records)

@app.post("/predict")
async def predict(records: list[dict[str, Any]]) -> list[dict[str, float]]:
    return [model.predict_proba_one(record) for record in records]
"""

SKLEARN = """
import json, sys
import mlflow.sklearn
import pandas
from sklearn.naive_bayes import GaussianNB
records = pandas.DataFrame(json.load(open("records.json")))
labels = records.pop("label")
fitted = GaussianNB().fit(records, labels)
mlflow.sklearn.save_model(fitted, "model", pyfunc_predict_fn="predict_proba")
"""


class Request(NamedTuple):
    """A kind of request: path, body of some records, and the classes in an answer."""

    path: str
    body: Callable[[list[Record]], Any]
    classes: Callable[[Any], list[str]] = lambda answer: []


class Running(NamedTuple):
    """A server that answers: its name, port, and requests by what they do."""

    name: str
    port: int
    requests: dict[str, Request]


def made(count: int, seed: int) -> list[Record]:
    """Records with labels of two classes."""
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(count, FIELDS))
    label = numbers[:, 0] + numbers[:, 1] ** 2 + random.normal(size=count) > 1
    columns = zip(numbers.tolist(), label.tolist(), strict=True)
    return [
        dict(zip(NAMES, row, strict=True)) | {"label": "yes" if y else "no"} for row, y in columns
    ]


def unlabelled(records: list[Record]) -> list[Record]:
    return [{name: record[name] for name in NAMES} for record in records]


def likely(probabilities: dict[str, float]) -> str:
    return max(probabilities, key=lambda label: probabilities[label])


@contextmanager
def headwater(directory: Path, records: list[Record]) -> Iterator[Running]:
    """A service that has learned the records; a process of its own answers requests."""
    transport, port = f"sqlite:{directory}/log.db", free_port()
    fields = "\n".join(f'{name} = "numeric"' for name in NAMES)
    file = directory / "peers.toml"
    file.write_text(f"""name = "peers"
[input]
transport = "{transport}"
observations = "obs"
label = "label"
[features]
{fields}
[model]
type = "GaussianNB"
[http]
port = 0
[serve]
port = {port}
""")
    with closing(open_log(transport)) as log:
        log.create_topic("obs", 1)
        values = (json.dumps(record | {"id": str(n)}) for n, record in enumerate(records))
        log.append([Outgoing("obs", None, value.encode()) for value in values])

    def classes(answer: Any) -> list[str]:
        return [each["prediction"] for each in answer]

    def identified(some: list[Record]) -> list[Record]:
        return [record | {"id": os.urandom(8).hex()} for record in some]

    predict = Request("/v1/predict", unlabelled, classes)
    running = Running(
        "headwater", port, {"predict": predict, "learn": Request("/v1/observations", identified)}
    )
    with Service(file) as service:
        service.wait_said("live at journal record", START_SECONDS)
        until_learned(port, len(records))
        yield running
        service.terminate()


def until_learned(port: int, count: int) -> None:
    """Wait until the service answers with a model that has learned so many labels."""
    import httpx

    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(httpx.HTTPError, KeyError):
            found = httpx.get(f"http://127.0.0.1:{port}/v1/model").json()
            if found["learned"] >= count:
                return
        time.sleep(0.2)
    raise SystemExit("the service did not learn the records in time")


@contextmanager
def started(command: list[str], directory: Path, running: Running) -> Iterator[Running]:
    """A server of another project, from its start to its first answer and its end."""
    import httpx

    path = f"{directory / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=directory,
            env=environment | {"PATH": path},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{running.port}/")
                break
            time.sleep(0.2)
        else:
            raise SystemExit(f"{running.name} did not start: {(directory / 'log').read_text()}")
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)  # the server may have children
        process.wait()


@contextmanager
def river(directory: Path, records: list[Record]) -> Iterator[Running]:
    """River's model behind FastAPI, which has learned the records one by one."""
    import httpx

    (directory / "app.py").write_text(RIVER)
    port = free_port()
    command = ["venv/bin/uvicorn", "app:app", "--port", str(port), "--log-level", "warning"]

    def classes(answer: Any) -> list[str]:
        return [likely(each) for each in answer]

    requests = {
        "predict": Request("/predict", unlabelled, classes),
        "learn": Request("/learn", list),
    }
    with started(command, directory, Running("river under FastAPI", port, requests)) as running:
        for start in range(0, len(records), 1000):
            httpx.post(
                f"http://127.0.0.1:{port}/learn", json=records[start : start + 1000], timeout=60
            ).raise_for_status()
        yield running


@contextmanager
def mlflow(directory: Path, records: list[Record]) -> Iterator[Running]:
    """MLflow's scoring server with scikit-learn's model, fitted to the records."""
    (directory / "records.json").write_text(json.dumps(records))
    (directory / "fit.py").write_text(SKLEARN)
    python = directory / "venv" / "bin" / "python"
    subprocess.run(  # noqa: S603
        [python, "fit.py"], cwd=directory, check=True, capture_output=True
    )
    port = free_port()
    command = ["venv/bin/mlflow", "models", "serve", "-m", "model", "-p", str(port)]

    def split(some: list[Record]) -> Any:
        rows = [[record[name] for name in NAMES] for record in some]
        return {"dataframe_split": {"columns": NAMES, "data": rows}}

    def classes(answer: Any) -> list[str]:
        return [("no", "yes")[no < yes] for no, yes in answer["predictions"]]

    requests = {"predict": Request("/invocations", split, classes)}
    running = Running("MLflow's scoring server", port, requests)
    with started([*command, "--env-manager", "local"], directory, running) as found:
        yield found


PEERS = {
    "river under FastAPI": (river, ("river", "fastapi", "uvicorn")),
    "MLflow's scoring server": (mlflow, ("mlflow", "scikit-learn", "pandas")),
}


def installed(directory: Path, packages: tuple[str, ...]) -> str | None:
    """Make the environment of a peer; why it cannot be made, or None."""
    directory.mkdir()
    try:
        for command in (
            [sys.executable, "-m", "venv", "venv"],
            ["venv/bin/python", "-m", "pip", "install", "-q", "--prefer-binary", *packages],
        ):
            subprocess.run(  # noqa: S603
                command, cwd=directory, check=True, timeout=INSTALL_SECONDS, capture_output=True
            )
    except subprocess.TimeoutExpired:
        return f"not installed within {INSTALL_SECONDS // 60} minutes"
    except subprocess.CalledProcessError as error:
        return f"not installed: {error.stderr.decode().strip().splitlines()[-1]}"
    return None


def versions(directory: Path, packages: tuple[str, ...]) -> str:
    """Names and versions of the packages in an environment."""
    names = " ".join(packages)
    code = f"from importlib.metadata import version as v; print(*(f'{{n}} {{v(n)}}' for n in '{names}'.split()), sep=', ')"  # noqa: E501
    done = subprocess.run(  # noqa: S603
        [directory / "venv" / "bin" / "python", "-c", code],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


async def asked(port: int, requests: list[bytes], seconds: float) -> tuple[int, list[float]]:
    """Ask for some seconds over several connections: requests answered, and the wait of each."""
    waits: list[float] = []
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        turn = number
        while (began := time.perf_counter()) < end:
            writer.write(requests[turn % len(requests)])
            status, _ = await answer(reader)
            if not 200 <= status < 300:
                raise SystemExit(f"port {port} answered {status}")
            waits.append(time.perf_counter() - began)
            turn += CONNECTIONS
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(CONNECTIONS)))
    return round(len(waits) / (time.perf_counter() - began)), waits


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of an answer with a length."""
    header = (await reader.readuntil(b"\r\n\r\n")).lower()
    lengths = [line for line in header.split(b"\r\n") if line.startswith(b"content-length")]
    body = await reader.readexactly(int(lengths[0].split(b":")[1]))
    return int(header.split(b" ", 2)[1]), body


def as_bytes(request: Request, records: list[Record]) -> bytes:
    """A request with these records."""
    body = json.dumps(request.body(records)).encode()
    head = f"POST {request.path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def agreed(servers: list[Running], records: list[Record]) -> float:
    """The share of the records for which all servers predict the same class."""
    import httpx

    every = []
    for server in servers:
        request = server.requests["predict"]
        url = f"http://127.0.0.1:{server.port}{request.path}"
        found = httpx.post(url, json=request.body(records), timeout=60).raise_for_status()
        every.append(request.classes(found.json()))
    return sum(len(set(each)) == 1 for each in zip(*every, strict=True)) / len(records)


def measured(servers: list[Running], seconds: float, rounds: int) -> Iterator[Row]:
    """The rows of the table: medians of the rounds, waits of all rounds."""
    pool = made(POOL, seed=2)
    kinds = [(what, size) for what in ("predict", "learn") for size in (1, MANY)]
    rates: dict[tuple[str, str, int], list[int]] = {}
    waits: dict[tuple[str, str, int], list[float]] = {}
    for number in range(rounds):
        turn = number % len(servers)
        for what, size in kinds:
            for server in servers[turn:] + servers[:turn]:
                request = server.requests.get(what)
                if request is None:
                    continue
                parts = [(pool * 2)[start : start + size] for start in range(0, POOL, 5)]
                many = [as_bytes(request, part) for part in parts]
                asyncio.run(asked(server.port, many, min(seconds, 0.5)))  # warm
                rate, found = asyncio.run(asked(server.port, many, seconds))
                rates.setdefault((server.name, what, size), []).append(rate)
                waits.setdefault((server.name, what, size), []).extend(found)
    for what, size in kinds:
        for server in servers:
            key = (server.name, what, size)
            if key in rates:
                p50, p99 = (percentile(waits[key], share) * 1e3 for share in (0.5, 0.99))
                yield (*key, median(rates[key]), p50, p99)


def lines(seconds: float, rounds: int) -> Iterator[str]:
    """The table, as lines of Markdown."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        home, records = Path(directory), made(LEARNED, seed=1)
        (home / "headwater").mkdir()
        servers = [stack.enter_context(headwater(home / "headwater", records))]
        notes = []
        for number, (name, (start, packages)) in enumerate(PEERS.items()):
            say(f"installing {name}")
            why = installed(home / str(number), packages)
            if why is None:
                servers.append(stack.enter_context(start(home / str(number), records)))
                notes.append(versions(home / str(number), packages))
            else:
                notes.append(f"{name}: {why}")
        share = agreed(servers, unlabelled(made(POOL, seed=3)))
        if share < AGREED:
            raise SystemExit(f"the servers predict the same class for {share:.0%} only")
        rows = list(measured(servers, seconds, rounds))
    yield f"{'; '.join(notes)}. All predict the same class for {share:.1%} of {POOL} records."
    yield ""
    yield "| server | request | records in it | requests/s | records/s | p50 | p99 |"
    yield "|---|---|---|---|---|---|---|"
    for name, what, size, rate, p50, p99 in rows:
        shown = f"{rate:,.0f} | {rate * size:,.0f} | {p50:.1f} ms | {p99:.1f} ms"
        yield f"| {name} | {what} | {size} | {shown} |"


def main() -> None:
    """Measure and print; with `--write` into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    table = list(lines(options.seconds, options.rounds))
    say("\n".join(table))
    if options.write:
        put("peers", table)


if __name__ == "__main__":
    main()
