"""Pipelines: a small YAML file that wires topics, tables and steps together; Spark does the work.

    name: orders
    storage: kaa-data/pipelines/orders
    kafka: {bootstrap.servers: "localhost:9092"}
    sources:
      orders: {topic: orders, options: {valueFormat: json, valueSchemaFile: order.json}}
    steps:
      totals: {sql: "select customer, sum(price) as total from orders group by customer"}
    sinks:
      totals: {from: totals, topic: totals, mode: update, key: customer}
      archive: {from: orders, table: shop.orders}
      latest: {from: totals, table: shop.totals, mode: upsert}

`schema.json` is the whole of it. Where Spark Declarative Pipelines have the same thing it has the
same name (`name`, `storage`, `configuration`). `${NAME}` is a variable of the environment,
and there is no other templating: what a pipeline computes is said in SQL or Python.

| module | what it owns |
|---|---|
| `spec` | the file, read and checked before anything starts |
| `shape` | JSON Schema, as far as `schema.json` uses it |
| `frames` | sources and steps as DataFrames |
| `running` | the queries and tables of a pipeline, until they are done or stopped |
| `sdp` | the same pipeline as a project of Spark Declarative Pipelines |
| `progress` | what a run tells: on the terminal, and in a file for other terminals |
"""
