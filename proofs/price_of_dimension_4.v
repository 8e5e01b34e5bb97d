(* Page 11: What is enough (Proposition 11.5) *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities price_of_dimension_2.
Import Keys.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

Section SignRank.
Variable R : realFieldType.
(* Definition 10.1: the pattern S, with rows J and columns I, is met in d dimensions, with some gap. *)
Definition met (J I : finType) (S : J -> {set I}) d := exists (key : I -> 'rV[R]_d) T,
  0 < T /\ forall i, exists q, meets key (S i) T q.
(* The product of rows with one coordinate more. *)
Lemma dot_more d (x y : 'rV[R]_d) a b :
  dot (row_mx x (const_mx a : 'rV_1)) (row_mx y (const_mx b)) = dot x y + a * b.
Proof. by rewrite !dot_mx tr_row_mx mul_row_col !mxE big_ord1 !mxE. Qed.

(* Step 1. A row is met if and only if an affine function is positive inside and negative outside. *)
Definition split_by (I : finType) d (key : I -> 'rV[R]_d) (A : {set I}) q c :=
  forall j, if j \in A then 0 < dot q (key j) - c else dot q (key j) - c < 0.
Lemma met_affine (J I : finType) (S : J -> {set I}) d :
  met S d <-> exists key : I -> 'rV[R]_d, forall i, exists q c, split_by key (S i) q c.
Proof.
split=> [[key [T [T0 me]]]|[key sp]]; exists key.
  move=> i.
  have [q qS] := me i; exists q; have [z|/set0Pn[j0 j0S]] := eqVneq (S i) set0.
    exists (1 + \sum_j `|dot q (key j)|) => j; rewrite z inE subr_lt0 (bigD1 j) //= addrA.
    apply: ltr_paddr; first by apply: sumr_ge0.
    by rewrite (le_lt_trans (ler_norm _)) // ltr_addr ltr01.
  case: (@arg_minP _ _ _ j0 [pred j | j \in S i] (fun j => dot q (key j)) j0S) => m /= mS min.
  exists (dot q (key m) - T / 2%:R) => j; have h : 0 < T / 2%:R by rewrite divr_gt0 ?ltr0n.
  rewrite opprB addrA; case: ifPn => jS.
    by rewrite addrAC ltr_paddl // subr_ge0 min.
  have := qS m j mS jS; rewrite ler_subr_addr => gap.
  rewrite subr_lt0; apply: lt_le_trans gap; rewrite addrC ltr_add2r.
  by rewrite ltr_pdivr_mulr ?ltr0n // ltr_pmulr // ltr1n.
exists 1; split=> [|i]; first exact: ltr01.
have [q [c qc]] := sp i; pose g j l := (dot q (key j) - dot q (key l))^-1.
have pos j l : j \in S i -> l \notin S i -> 0 < dot q (key j) - dot q (key l).
  move=> jS /negbTE lS; have := qc j; have := qc l; rewrite jS lS subr_lt0 subr_gt0 => a b.
  by rewrite subr_gt0 (lt_trans a b).
exists ((\sum_(p | (p.1 \in S i) && (p.2 \notin S i)) g p.1 p.2) *: q) => j l jS lS.
rewrite !dotZl -mulrBr (bigD1 (j, l)) /= ?jS //= mulrDl /g mulVf ?gt_eqF ?pos // ler_addl.
apply: mulr_ge0; last by rewrite ltW ?pos.
by apply: sumr_ge0 => p /andP[/andP[pS p'S] _]; rewrite invr_ge0 ltW ?pos.
Qed.

(* The sign-rank of a matrix b of signs is at most r. *)
Definition has_signs m n (b : 'I_m -> 'I_n -> bool) (M : 'M[R]_(m, n)) :=
  forall i j, if b i j then 0 < M i j else M i j < 0.
Definition sign_rank_le m n (b : 'I_m -> 'I_n -> bool) r :=
  exists2 M : 'M[R]_(m, n), has_signs b M & (\rank M <= r)%N.
(* The signs of 2P - 1 with a row of plus signs added; P_ij = 1 for j in S_i. *)
Definition signs m n (S : 'I_m -> {set 'I_n}) (i : 'I_(1 + m)) (j : 'I_n) :=
  if split i is inr i' then j \in S i' else true.

(* Step 2. n columns whose rows contain the row of ones and have rank d + 1 are keys in d
   dimensions: what the rows have beside the ones has rank d. *)
Lemma coordinates m n d (N : 'M[R]_(m, n)) : (0 < n)%N -> ((const_mx 1 : 'rV[R]_n) <= N)%MS ->
  (\rank N <= d.+1)%N -> exists G : 'M[R]_(d, n), (N <= (const_mx 1 : 'rV[R]_n) + G)%MS.
Proof.
move=> n0; set one : 'rV[R]_n := const_mx 1 => oN rN; pose D := (N :\: one)%MS.
have o1 : \rank one = 1%N.
  rewrite rank_rV; have -> // : one != 0.
  apply/eqP => /rowP/(_ (Ordinal n0)); rewrite !mxE => /eqP; rewrite oner_eq0 //.
have rD : (\rank D <= d)%N.
  have := mxrank_cap_compl N one; rewrite -/D (capmx_idPr oN) o1 add1n => e.
  by rewrite -ltnS e.
exists ((pid_mx (\rank D) : 'M_(d, \rank D)) *m row_base D).
have DG : (D <= (pid_mx (\rank D) : 'M_(d, \rank D)) *m row_base D)%MS.
  apply: (@submx_trans _ _ _ _ _ _ (row_base D)); first by rewrite eq_row_base.
  apply/submxP; exists (pid_mx (\rank D)).
  by rewrite mulmxA mul_pid_mx minnn (minn_idPr rD) pid_mx_1 mul1mx.
rewrite -(addsmx_diff_cap_eq N one) addsmxC; apply: addsmxS => //.
exact: capmxSr.
Qed.

(* Proposition 11.5 (It is sign-rank) (a): a pattern can be met in d dimensions if and only if the
   sign matrix 2P - 1, with a row of plus signs added, has a sign-rank of at most d + 1. *)
Theorem sign_rank m n (S : 'I_m -> {set 'I_n}) d :
  met S d <-> sign_rank_le (signs S) d.+1.
Proof.
split=> [/met_affine[key sp]|[M sM rM]].
  (* (q_i, -c_i) . (k_j, 1) has the signs, and (0, 1) . (k_j, 1) = 1 *)
  have /fin_all_exists[q /fin_all_exists[c qc]] := sp.
  pose A : 'M[R]_(1 + m, d + 1) := col_mx (row_mx 0 1) (row_mx (\matrix_i q i) (\col_i - c i)).
  pose B : 'M[R]_(d + 1, n) := col_mx (\matrix_j key j)^T (const_mx 1).
  exists (A *m B); last first.
    apply: leq_trans (mxrankM_maxl _ _) _; apply: leq_trans (rank_leq_col _) _.
    by rewrite addn1.
  have BE i j : (\matrix_i q i *m (\matrix_j key j)^T) i j = dot (q i) (key j).
    by rewrite mxE; apply: eq_bigr => l _; rewrite !mxE.
  move=> i j; rewrite /A mul_col_mx /signs -[i]splitK; case: (split i) => i' /=.
    by rewrite (unsplitK (inl i')) col_mxEu /B mul_row_col mul0mx add0r mul1mx mxE ltr01.
  rewrite (unsplitK (inr i')) col_mxEd /B mul_row_col mxE BE !mxE big_ord1 !mxE mulr1.
  exact: qc.
apply/met_affine; have [n0|] := posnP n; first by subst n; exists (fun=> 0) => i; exists 0, 0 => -[].
move=> n0; pose top : 'I_(1 + m) := lshift m ord0.
have Mtop j : 0 < M top j.
  by have := sM top j; rewrite /signs /top (unsplitK (inl ord0)).
(* divide the columns by the row of plus signs: it becomes the row of ones *)
pose N := M *m diag_mx (\row_j (M top j)^-1).
have NE i j : N i j = M i j / M top j by rewrite /N mul_mx_diag !mxE.
have oN : ((const_mx 1 : 'rV[R]_n) <= N)%MS.
  have <- : row top N = const_mx 1 by apply/rowP => j; rewrite mxE NE mxE divff // gt_eqF.
  exact: row_sub.
have rN : (\rank N <= d.+1)%N by apply: leq_trans rM; exact: mxrankM_maxl.
have [G /sub_addsmxP[u NG]] := coordinates n0 oN rN.
exists (fun j => (col j G)^T) => i; exists (row (rshift 1 i) u.2), (- u.1 (rshift 1 i) 0) => j.
have -> : dot (row (rshift 1 i) u.2) (col j G)^T - - u.1 (rshift 1 i) 0 = N (rshift 1 i) j.
  rewrite NG mxE opprK addrC; congr (_ + _); last first.
    by rewrite mxE; apply: eq_bigr => l _; rewrite !mxE.
  by rewrite mxE big_ord1 mxE mulr1.
have := sM (rshift 1 i) j; rewrite /signs (unsplitK (inr i)) NE; case: ifP => _ Mij.
  by rewrite divr_gt0.
by rewrite pmulr_llt0 // invr_gt0.
Qed.

(* The rows of (b): all S_i, all S_i with a, and all columns but a; None is the column a. *)
Definition raised m n (S : 'I_m -> {set 'I_n}) (r : option (bool * 'I_m)) : {set option 'I_n} :=
  match r with
  | Some (with_a, i) => [set x | if x is Some j then j \in S i else with_a]
  | None => [set x | x != None]
  end.
(* Proposition 11.5 (b): this is met in d + 1 dimensions if and only if S is in d. *)
Theorem one_more m n (S : 'I_m -> {set 'I_n}) d : met (raised S) d.+1 <-> met S d.
Proof.
have -> : d.+1 = (d + 1)%N by rewrite addn1.
split=> [/met_affine[key sp]|/met_affine[key sp]]; last first.
  (* the keys (k_j, 1), and 0 for a; a small eps *)
  have /fin_all_exists[q /fin_all_exists[c qc]] := sp.
  pose v i j := dot (q i) (key j) - c i; pose D := \sum_i \sum_j `|v i j|^-1.
  have v0 i j : v i j != 0.
    by have := qc i j; rewrite -/(v i j); case: ifP => _ h; [rewrite gt_eqF | rewrite lt_eqF].
  have D0 : 0 <= D by do 2!(apply: sumr_ge0 => ? _); rewrite invr_ge0.
  pose eps := (1 + D)^-1; have D1 : 0 < 1 + D by rewrite ltr_paddr ?ltr01.
  have e0 : 0 < eps by rewrite invr_gt0.
  have small i j : eps < `|v i j|.
    have vp : 0 < `|v i j| by rewrite normr_gt0.
    rewrite -[`|_|]invrK /eps ltf_pinv ?posrE ?invr_gt0 //.
    apply: (@le_lt_trans _ _ D); last by rewrite ltr_addr ltr01.
    rewrite /D (bigD1 i) //= (bigD1 j) //= -addrA ler_addl addr_ge0 //.
      by apply: sumr_ge0 => ? _; rewrite invr_ge0.
    by do 2!(apply: sumr_ge0 => ? _); rewrite invr_ge0.
  apply/met_affine; exists (fun x => if x is Some j then row_mx (key j) (const_mx 1) else 0).
  have dot0 (y : 'rV[R]_(d + 1)) : dot y 0 = 0 by rewrite dot_mx trmx0 mulmx0 mxE.
  case=> [[with_a i]|].
    exists (row_mx (q i) (const_mx (- c i))), (if with_a then - eps else eps) => -[j|].
      rewrite inE dot_more mulr1 -/(v i j); have := qc i j; rewrite -/(v i j).
      have := small i j; case: ifP => _ lt h; move: lt.
        rewrite gtr0_norm // => lt; case: with_a; last by rewrite subr_gt0.
        by rewrite opprK addr_gt0.
      rewrite ltr0_norm // => lt; case: with_a; last by rewrite subr_lt0 (lt_trans h).
      by rewrite opprK -ltr_subr_addr sub0r ltr_oppr.
    by rewrite inE dot0 sub0r; case: with_a; rewrite ?opprK // oppr_lt0.
  exists (row_mx 0 (const_mx 1)), (2%:R^-1) => -[j|]; rewrite inE /=.
    have d0 : dot (0 : 'rV_d) (key j) = 0 by rewrite dot_mx mul0mx mxE.
    by rewrite dot_more d0 add0r mulr1 subr_gt0 invf_lt1 ?ltr0n // ltr1n.
  by rewrite dot0 sub0r oppr_lt0 invr_gt0 ltr0n.
(* back: a at the origin; a combination of the two functions for S_i vanishes there *)
have /fin_all_exists[q /fin_all_exists[c qc]] := sp.
pose a := key None; pose f r x := dot (q r) (key x) - c r.
have fE r x : f r x = dot (q r) (key x - a) + f r None.
  by rewrite /f dotDr dotNr -/a; ident.
pose with_a i := f (Some (true, i)); pose without i := f (Some (false, i)).
have a1 i : 0 < with_a i None by have := qc (Some (true, i)) None; rewrite inE.
have a0 i : without i None < 0 by have := qc (Some (false, i)) None; rewrite inE.
pose r i := with_a i None *: q (Some (false, i)) - without i None *: q (Some (true, i)).
pose Y : 'M[R]_(n, d + 1) := \matrix_j (key (Some j) - a).
have prod (x : 'rV[R]_(d + 1)) j : (x *m Y^T) 0 j = dot x (key (Some j) - a).
  by rewrite mxE; apply: eq_bigr => l _; rewrite !mxE.
apply/sign_rank; exists (col_mx (q None) (\matrix_i r i) *m Y^T); last first.
  apply: leq_trans (mxrankM_maxl _ _) _; apply: leq_trans (rank_leq_col _) _.
  by rewrite addn1.
move=> i j; rewrite mul_col_mx /signs -[i]splitK; case: (split i) => i' /=.
  rewrite (unsplitK (inl i')) col_mxEu ord1 prod.
  have hi : 0 < f None (Some j) by have := qc None (Some j); rewrite inE.
  have lo : f None None < 0 by have := qc None None; rewrite inE.
  by move: hi; rewrite fE => hi; rewrite -(subr0 (dot _ _)) subr_gt0 -(ltr_add2r (f None None))
    add0r (lt_trans lo).
rewrite (unsplitK (inr i')) col_mxEd -[_ i' j](_ : (r i' *m Y^T) 0 j = _); last first.
  by rewrite -(rowK r i') -row_mul mxE.
rewrite prod.
have -> : dot (r i') (key (Some j) - a) =
    with_a i' None * without i' (Some j) - without i' None * with_a i' (Some j).
  rewrite /r -scaleNr dotDl !dotZl /without /with_a !(fE _ (Some j)); ident.
have := qc (Some (true, i')) (Some j); have := qc (Some (false, i')) (Some j); rewrite !inE.
have := a1 i'; have := a0 i'; rewrite -/(f _ _) -/(f _ _) -/(without i' _) -/(with_a i' _).
case: ifP => _ w0 w1 h0 h1.
  by rewrite -mulNr addr_gt0 // mulr_gt0 // oppr_gt0.
by rewrite -mulNr -(addr0 0) ltr_add // ?pmulr_rlt0 // oppr_gt0.
Qed.
End SignRank.

(* Instance: three tokens that each attend to themselves are met in two dimensions, by the signs of
   a matrix of rank 3. *)
Example three_tokens (R : realFieldType) : met R (fun i : 'I_3 => [set i]) 2.
Proof.
apply/sign_rank; exists (\matrix_(i, j) if split i is inr i' then 2%:R * (i' == j)%:R - 1 else 1);
  last exact: rank_leq_col.
move=> i j; rewrite /signs mxE; case: (split i) => i' /=; first exact: ltr01.
rewrite inE eq_sym; case: eqP => _; rewrite ?mulr1 ?mulr0 ?sub0r ?oppr_lt0 ?ltr01 //.
by rewrite subr_gt0 ltr1n.
Qed.
