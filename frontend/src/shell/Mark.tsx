/** Rolldeck's logo: a learning curve. */
export function Mark({ size = 24 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#3d5afe" />
      <path d="M7 22c4.500-1 5.500-11 9.500-11S21 17 25 10" fill="none" stroke="#fff" strokeWidth="3" strokeLinecap="round" />
      <circle cx="25" cy="10" r="2.600" fill="#fff" />
    </svg>
  );
}
