"""The nouns that every layer shares, each defined once. Pure: nothing here imports another
package but `limits`.

| module | what it names |
|---|---|
| `errands` | `Errands`: work that is begun and that nobody waits for |
| `kinds` | `ResourceType`, `ConfigSource`, `AppendOrigin`, and what acks a producer asks for |
| `nodes` | `SecurityProtocol`, `Endpoint`, `VersionRange` |
| `ordered` | `OrderedSet`, whose order does not depend on hashes |
| `pieces` | work that is done in pieces, so that the one who does it can serve others in between |
| `seams` | `Clock`, `RandomSource`: what is handed in so that a run can be repeated |
| `steady_date` | `SteadyDate`: by which things expire although somebody sets the date ahead |
| `threads` | `outlast`, `outlasted`: waiting for work on a thread, which nothing can stop |
| `topics` | `TopicPartition`, and the topics that belong to Kafka itself |
| `turns` | `Turns`, `in_turns`, `gathered`: work on very many things, with turns for others |
| `words` | `count_text`: words of messages that people read |
"""
