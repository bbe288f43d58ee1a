// The peak bandwidth of NVLink by the name of a GPU: bytes of one direction over all links of the GPU, in GB/s. NVIDIA's data
// sheets state the sum of both directions.
interface Peak {
  gpu: string;
  gbps: number;
}

const PEAKS: [RegExp, Peak][] = [
  [/\bV100-SXM/, { gpu: 'V100 SXM', gbps: 150 }],
  [/\bA100-SXM/, { gpu: 'A100 SXM', gbps: 300 }],
  [/\bA800-SXM/, { gpu: 'A800 SXM', gbps: 200 }],
  [/\bH100 (SXM|\d+GB HBM3$)/, { gpu: 'H100 SXM', gbps: 450 }],
  [/\bH800 (SXM|\d+GB HBM3$)/, { gpu: 'H800 SXM', gbps: 200 }],
  [/\bH200$/, { gpu: 'H200 SXM', gbps: 450 }],
  [/\bB200$/, { gpu: 'B200', gbps: 900 }],
];

// Undefined unless all GPUs are of one model with a known peak. Cards for PCIe slots have other links or none.
export function nvlinkPeak(gpus: (string | null | undefined)[]): Peak | undefined {
  const peaks = new Set(gpus.map((gpu) => PEAKS.find(([name]) => name.test(gpu ?? ''))?.[1]));
  return peaks.size === 1 ? [...peaks][0] : undefined;
}
