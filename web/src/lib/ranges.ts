// Numbers of entries as the API takes them: `7,9,100-200`.

export function numberRanges(numbers: Iterable<number>): string {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const ranges: string[] = [];
  for (let i = 0; i < sorted.length; i += 1) {
    const start = sorted[i] as number;
    let end = start;
    while (sorted[i + 1] === end + 1) {
      end += 1;
      i += 1;
    }
    ranges.push(start === end ? `${start}` : `${start}-${end}`);
  }
  return ranges.join(",");
}
