"""A conversation of N turns kept by LangGraph's SQLite checkpointer, as its documentation does it.

Prints JSON: milliseconds of each turn, bytes on disk. Called by `skein-load langgraph`; needs the packages
`langgraph` and `langgraph-checkpoint-sqlite`.
"""

import json
import operator
import os
import sys
import time
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph


class Talk(TypedDict):
    messages: Annotated[list, operator.add]


def main(folder: str, turns: int, asked: int, replied: int) -> None:
    path = os.path.join(folder, "checkpoints.db")
    text = lambda turn, size: (f"turn {turn} " + "all work and no play " * size)[:size]
    reply = lambda talk: {"messages": [{"role": "assistant", "content": text(len(talk["messages"]), replied)}]}
    graph = StateGraph(Talk)
    graph.add_node("model", reply)
    graph.add_edge(START, "model")
    graph.add_edge("model", END)
    took = []
    with SqliteSaver.from_conn_string(path) as saver:
        app = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "one"}}
        for turn in range(turns):
            began = time.perf_counter()
            app.invoke({"messages": [{"role": "user", "content": text(turn, asked)}]}, config)
            took.append((time.perf_counter() - began) * 1000)
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    print(json.dumps({"ms": took, "bytes": size}))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
