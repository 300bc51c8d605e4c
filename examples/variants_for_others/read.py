"""What another trainer reads of the variants in a Parquet file, which is the argument."""

import json
import sys

from datasets import Dataset

rows = Dataset.from_parquet(sys.argv[1])
print(f"{rows.num_rows} rows with the columns {', '.join(rows.column_names)}")
print(rows[0]["prompt"][-1]["content"])
print(f"ancestors of the first: {json.loads(rows[0]['task'])['provenance']['ancestors']}")
